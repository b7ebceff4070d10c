// `npm run build`: what browsers are served. Needs the development packages; the server itself runs without this.
import { buildDashboard } from './build-dashboard.mjs';

await buildDashboard();
