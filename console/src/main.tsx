import { render } from 'preact';
import { App } from './app.tsx';
import { startLive } from './live.ts';
import { givenToken } from './route.ts';
import { loadSession, signIn } from './session.ts';
import './style.css';

const root = document.getElementById('app');
if (root) {
  if (givenToken !== undefined) await signIn(givenToken);
  await loadSession();
  startLive();
  render(<App />, root);
}
