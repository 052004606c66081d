import { defineConfig } from 'vite';

// Everything is a separate file, because the content security policy of the page
// allows no inline script, no inline style and no data URL.
export default defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '.built', // build.sh moves it
    assetsInlineLimit: 0,
    modulePreload: false,
    // The binary must contain the licences of the libraries.
    license: { fileName: 'licenses.txt' },
    target: 'es2022',
  },
  server: { proxy: { '^/(api|events)/': 'http://127.0.0.1:7480' } },
});
