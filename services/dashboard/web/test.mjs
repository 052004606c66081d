// Runs the unit tests. Each is bundled into a scratch folder, because Node does not
// read TypeScript.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'vite';

process.chdir(fileURLToPath(new URL('.', import.meta.url)));
const outDir = mkdtempSync(join(tmpdir(), 'tocsin-page-'));
try {
  const input = readdirSync('test').map((name) => join('test', name));
  await build({
    configFile: false,
    logLevel: 'warn',
    build: { outDir, emptyOutDir: false, ssr: true, minify: false, rolldownOptions: { input, output: { entryFileNames: '[name].mjs' } } },
  });
  const files = readdirSync(outDir).filter((name) => name.endsWith('.test.mjs')).map((name) => join(outDir, name));
  process.exitCode = spawnSync(process.execPath, ['--test', ...files], { stdio: 'inherit' }).status ?? 1;
} finally {
  rmSync(outDir, { recursive: true, force: true });
}
