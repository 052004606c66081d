// Prints @nats-io/nats-core as one module, as a CDN serves it to a page.

import { build } from 'esbuild';

const { outputFiles } = await build({
  stdin: { contents: "export { nkeyAuthenticator, wsconnect } from '@nats-io/nats-core'", resolveDir: import.meta.dirname },
  bundle: true,
  format: 'esm',
  platform: 'browser',
  write: false,
  logLevel: 'warning',
});
process.stdout.write(outputFiles[0].text);
