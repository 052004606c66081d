// A small shop that reports to OTEL_EXPORTER_OTLP_ENDPOINT by OpenTelemetry's
// SDK for Node, which is told all else by its environment too: a request that is
// answered with a 500, a call that nobody answers, a function that throws, and a
// log line with an exception.
import { createRequire } from "node:module";
import { logs, SeverityNumber, SpanStatusCode, trace } from "@opentelemetry/api";
import { HttpInstrumentation } from "@opentelemetry/instrumentation-http";
import { NodeSDK } from "@opentelemetry/sdk-node";

const sdk = new NodeSDK({ instrumentations: [new HttpInstrumentation()] });
sdk.start();
// What is loaded from here on is instrumented.
const http = createRequire(import.meta.url)("node:http");

const listening = async (server) => {
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return `http://127.0.0.1:${server.address().port}`;
};
const get = (url) =>
  new Promise((done) => {
    http.get(url, (res) => res.resume().on("end", done)).on("error", done);
  });

const server = http.createServer((req, res) => {
  res.statusCode = req.url.startsWith("/api/stock") ? 500 : 200;
  res.end("{}");
});
const shop = await listening(server);
await get(`${shop}/api/stock/7?colour=red`);
await get(`${shop}/home`);
// Nobody listens where a server has just ended.
const gone = http.createServer();
const warehouse = await listening(gone);
await new Promise((ended) => gone.close(ended));
await get(`${warehouse}/parcels`);

trace.getTracer("shop").startActiveSpan("checkout", (span) => {
  try {
    throw new TypeError("the card could not be read");
  } catch (error) {
    span.recordException(error);
    span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
  }
  span.end();
});

const logger = logs.getLogger("shop");
logger.emit({ severityNumber: SeverityNumber.WARN, body: "stock of kettles is low", attributes: { left: 2 } });
const lost = new RangeError("order A-1 was lost");
logger.emit({
  severityNumber: SeverityNumber.ERROR,
  attributes: { "exception.type": lost.name, "exception.message": lost.message, "exception.stacktrace": lost.stack },
});

server.close();
await sdk.shutdown();
