import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from './app.tsx';
import { keepFocus } from './shell/keep-focus.ts';
import { ignoreLateEnter } from './shell/late-enter.ts';
import { followRowClicks } from './shell/row-clicks.ts';
import { applyStoredTheme } from './shell/theme.ts';
import './style.css';

applyStoredTheme();
followRowClicks();
keepFocus();
ignoreLateEnter();
const root = document.getElementById('root');
if (root === null) throw new Error('index.html has no #root');
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
