// A small shop that reports to SENTRY_DSN by @sentry/node: a checkout that
// fails with what led to it, a request that is answered with a 500, a call to
// another service that fails, log lines and a check-in.
import * as Sentry from "@sentry/node";
import { createServer } from "node:http";

Sentry.init({
  dsn: process.env.SENTRY_DSN,
  release: "checkout@1.4.2",
  environment: "test",
  tracesSampleRate: 1,
  enableLogs: true,
});

const server = createServer((req, res) => {
  res.statusCode = req.url.startsWith("/api/stock") ? 500 : 200;
  res.end("{}");
});
const listening = async (s) => {
  await new Promise((ready) => s.listen(0, "127.0.0.1", ready));
  return `http://127.0.0.1:${s.address().port}`;
};
const shop = await listening(server);
// Nobody listens where a server has just ended.
const gone = createServer();
const warehouse = await listening(gone);
await new Promise((ended) => gone.close(ended));

await Sentry.startSpan({ name: "checkout", op: "task" }, async () => {
  await fetch(`${shop}/api/stock/7?colour=red`, { method: "POST" });
  await fetch(`${warehouse}/stock/7`).catch(() => {});
});

Sentry.addBreadcrumb({ category: "cart", message: "put a kettle into the cart", level: "info", data: { items: 3 } });
Sentry.setTag("shelf", "kitchen");
Sentry.setUser({ id: "u-17", email: "ada@example.com" });
function pay() {
  try {
    JSON.parse("{broken");
  } catch (cause) {
    throw new TypeError("the card could not be read", { cause });
  }
}
try {
  pay();
} catch (error) {
  Sentry.captureException(error);
}
Sentry.captureMessage("the warehouse answers slowly", "warning");

Sentry.logger.warn("stock of %s is low", ["kettles"], { left: 2 });
Sentry.logger.error(Sentry.logger.fmt`order ${"A-1"} was lost`);

Sentry.captureCheckIn({ monitorSlug: "nightly-report", status: "error" });

await Sentry.close(5000);
server.close();
