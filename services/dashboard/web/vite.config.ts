import { defineConfig } from 'vite';

// Everything is a file of our own: the policy that the page is served with
// allows no inline script, no inline style and no data URL.
export default defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '.built', // build.sh moves it
    assetsInlineLimit: 0,
    modulePreload: false,
    // What goes into the binary takes the licences of its parts along.
    license: { fileName: 'licenses.txt' },
    target: 'es2022',
  },
  server: { proxy: { '^/(api|events)/': 'http://127.0.0.1:7480' } },
});
