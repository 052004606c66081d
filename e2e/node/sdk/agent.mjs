// Talks to a gateway with one of the TypeScript SDK's clients and prints what it
// saw as JSON. Told are the package, the protocol version that it is to ask for,
// or "auto", and where the gateway is: its URL, or its command line.
const [pkg, version, ...gateway] = process.argv.slice(2);
const http = gateway[0].startsWith("http://");

const v2 = pkg === "@modelcontextprotocol/client";
const { Client } = await import(v2 ? pkg : `${pkg}/client/index.js`);

// The alerts that are awaited below are raised by CI results that are sent to ingest.
async function fails(name) {
  const answer = await fetch(`${process.env.INGEST}/ci-result`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ status: "failure", name, commit: "c0ffee" }),
  });
  if (!answer.ok) throw new Error(`ingest: ${answer.status} ${await answer.text()}`);
}

const options = {};
if (version === "auto") options.versionNegotiation = { mode: "auto" };
else if (version === "2026-07-28") options.versionNegotiation = { mode: { pin: version } };
else if (v2) options.supportedProtocolVersions = [version];
const client = new Client({ name: "ts-sdk", version: "1" }, options);

async function connection() {
  if (http) {
    const { StreamableHTTPClientTransport } = await import(v2 ? pkg : `${pkg}/client/streamableHttp.js`);
    return new StreamableHTTPClientTransport(new URL(gateway[0]));
  }
  const { StdioClientTransport } = await import(v2 ? `${pkg}/stdio` : `${pkg}/client/stdio.js`);
  const [command, ...args] = gateway;
  const { PATH, HOME, TOCSIN_STATE_DIR, GORACE } = process.env; // the SDK's own default has the first two
  return new StdioClientTransport({ command, args, env: { PATH, HOME, TOCSIN_STATE_DIR, GORACE }, stderr: "inherit" });
}
const transport = await connection();

const seen = {};
const send = transport.send.bind(transport);
transport.send = (message, ...rest) => {
  if (message.method === "initialize") seen.proposed = message.params.protocolVersion;
  return send(message, ...rest);
};

const notes = [];
let wake = () => {};
client.fallbackNotificationHandler = async (n) => {
  notes.push(n);
  wake();
};
// next is the first notification of a method that was not taken yet.
async function next(method) {
  for (;;) {
    const i = notes.findIndex((n) => n.method === method);
    if (i >= 0) return notes.splice(i, 1)[0];
    await new Promise((resolve) => (wake = resolve));
  }
}

async function call(name, args, options) {
  const result = v2
    ? await client.callTool({ name, arguments: args }, options)
    : await client.callTool({ name, arguments: args }, undefined, options);
  if (result.isError) throw new Error(`${name}: ${result.content[0].text}`);
  return result.content.map((c) => c.text);
}

await client.connect(transport);
seen.agreed = v2 ? client.getNegotiatedProtocolVersion() : seen.proposed; // the older ones refuse what they don't know
const modern = seen.agreed === "2026-07-28"; // has neither messages that nobody asked for nor pings
seen.server = client.getServerVersion().name;
seen.tools = (await client.listTools()).tools.map((t) => t.name).sort();

await fails("first");
seen.observed = (await call("observe", { wait_seconds: 30 })).at(-1);
seen.notified = (await call("notify", { message: "the kettle is repaired" }))[0];

seen.enabled = (await call("configure_streaming", { action: "enable", events: ["ci"] }))[0];
await fails("second");
if (!modern) {
  const message = (await next("notifications/message")).params;
  seen.message = { level: message.level, logger: message.logger, title: message.data.title };
}
seen.streamed = (await call("observe", { wait_seconds: 30 })).at(-1);
if (!modern) {
  await client.ping();
  seen.pinged = true;
}

const stop = new AbortController();
const held = call("observe", { wait_seconds: 50 }, { signal: stop.signal }).then(
  (text) => `answered: ${text}`,
  (error) => `ended: ${error}`,
);
await call("observe", { what: "status" }); // the held one is under way
stop.abort("enough");
seen.held = await held;
await call("configure", { action: "health" }); // an answer that crossed the cancellation would have the alert
await fails("third");
seen.after = (await call("observe", { wait_seconds: 30 })).at(-1);
seen.health = (await call("configure", { action: "health" }))[0]; // for whoever looks into a failure

await client.close();
console.log(JSON.stringify(seen));
