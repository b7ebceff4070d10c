import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** Where the development server (`npx vite dashboard`) forwards API requests to. */
const server = 'http://127.0.0.1:8080';

export default defineConfig({
  root: import.meta.dirname,
  base: '/dashboard/',
  plugins: [react(), tailwindcss()],
  build: {
    target: 'es2023',
    cssTarget: ['chrome123', 'firefox121', 'safari17.5'],
    // The page's content security policy forbids scripts, styles and fonts from data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 400,
    rolldownOptions: {
      output: {
        // Three files: what every page needs, what shows a conversation, and the pages. A file per module compresses worse:
        // together they would be a tenth larger.
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
