// What a shop's page bundles: @sentry/browser, told where to send to by the
// page, and what goes wrong on it.
import * as Sentry from "@sentry/browser";

Sentry.init({
  dsn: window.SENTRY_DSN,
  release: "web@2.0.1",
  environment: "test",
  tracesSampleRate: 1,
  traceLifecycle: window.SENTRY_LIFECYCLE, // "stream" unless the page says "static"
  enableLogs: true,
  integrations: [Sentry.browserTracingIntegration({ idleTimeout: 500, finalTimeout: 5000 })],
});

document.querySelector("#pay").addEventListener("click", async () => {
  const answer = await fetch("/api/broken?card=1", { method: "POST" });
  console.warn(`the till answered ${answer.status}`);
  Sentry.logger.warn("the till is slow", { till: 3 });
  setTimeout(() => {
    throw new RangeError("no such card");
  });
});
