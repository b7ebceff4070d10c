import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** A server that `npx vite dashboard` passes API requests on to. */
const server = 'http://127.0.0.1:8080';

export default defineConfig({
  root: import.meta.dirname,
  base: '/dashboard/',
  plugins: [react(), tailwindcss()],
  build: {
    target: 'es2023',
    cssTarget: ['chrome123', 'firefox121', 'safari17.5'],
    // The page's policy allows no data: scripts and no inlined anything.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 400,
    rolldownOptions: {
      output: {
        // Few files that compress well, loaded when first needed: what every page uses, what reads a conversation, and the
        // pages. One file for each small part costs a tenth more.
        codeSplitting: {
          groups: [
            {
              name: 'index',
              test: /node_modules[\\/](react|react-dom|scheduler|wouter|regexparam|@tanstack[\\/](react-)?query[^\\/]*|lucide-react)[\\/]|src[\\/](shell|server|sign-in|parts[\\/](?!markdown|chart))/,
              priority: 4,
            },
            { name: 'conversation', test: /src[\\/]conversation|marked|dompurify|virtual|eventsource-parser/, priority: 3 },
            { name: 'pages', test: /src[\\/]pages/, priority: 2 },
          ],
        },
      },
    },
  },
  server: { proxy: { '^/(api|auth|v1|readyz|dashboard/(api|session))': server, '^/[^/]+/[^/]+/v1/': server } },
});
