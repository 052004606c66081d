// Runs the tests of the modules that need no page. It bundles each into a
// temporary folder first, because older versions of Node read no TypeScript.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

process.chdir(fileURLToPath(new URL('.', import.meta.url)));
const outdir = mkdtempSync(join(tmpdir(), 'tocsin-script-'));
try {
  const entryPoints = readdirSync('test').map((name) => join('test', name));
  await build({ entryPoints, outdir, bundle: true, format: 'esm', platform: 'node', outExtension: { '.js': '.mjs' }, logLevel: 'warning' });
  const files = readdirSync(outdir).map((name) => join(outdir, name));
  process.exitCode = spawnSync(process.execPath, ['--test', ...files], { stdio: 'inherit' }).status ?? 1;
} finally {
  rmSync(outdir, { recursive: true, force: true });
}
