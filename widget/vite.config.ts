import { defineConfig } from 'vite';

/** One file that a page loads with `<script type="module">`. */
export default defineConfig({
  root: import.meta.dirname,
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { input: 'src/parley-chat.ts', output: { entryFileNames: 'parley-chat.js' } },
  },
});
