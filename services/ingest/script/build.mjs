// Checks the types, bundles src/main.ts into dist/tocsin.js, and prints its
// size. A bundle over the limit is an error.

import { execFileSync } from 'node:child_process';
import { renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

import { build } from 'esbuild';

const LIMIT = 12 * 1024; // bytes, compressed

process.chdir(fileURLToPath(new URL('.', import.meta.url)));
const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');
try {
  execFileSync(process.execPath, [tsc, '--project', '.'], { stdio: 'inherit' });
} catch {
  process.exit(1); // the compiler has said why
}
const { outputFiles } = await build({
  entryPoints: ['src/main.ts'],
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2020',
  charset: 'ascii',
  legalComments: 'none',
  banner: { js: '/* tocsin.js, Apache-2.0; with web-vitals by Google, Apache-2.0 */' },
  write: false,
  logLevel: 'warning',
});
// A source map with ignoreList (ECMA-426) only: developer tools then show the page's
// code as the caller of console.error, and not this script.
const code = outputFiles[0].text;
const map = {
  version: 3,
  sources: ['tocsin.js'],
  sourcesContent: ['// The browser script of Tocsin, from services/ingest/script.'],
  ignoreList: [0],
  mappings: code.trimEnd().split('\n').fill('AAAA').join(';'),
};
const inline = 'data:application/json;base64,' + Buffer.from(JSON.stringify(map)).toString('base64');
const bundle = Buffer.from(`${code}//# sourceMappingURL=${inline}\n`);
const size = gzipSync(bundle, { level: 9 }).length;
console.log(`tocsin.js: ${bundle.length} bytes, ${size} compressed, at most ${LIMIT}`);
if (size > LIMIT) process.exit(1);
writeFileSync('dist/.tocsin.js', bundle);
renameSync('dist/.tocsin.js', 'dist/tocsin.js'); // never a half-written file
