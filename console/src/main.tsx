import { render } from 'preact';
import { App } from './app.tsx';
import { startLive } from './live.ts';
import { loadSession } from './session.ts';
import './style.css';

const root = document.getElementById('app');
if (root) {
  await loadSession();
  startLive();
  render(<App />, root);
}
