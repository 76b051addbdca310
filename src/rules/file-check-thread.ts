import { createFileChecker } from './load.ts';
import { serveThread } from './thread.ts';

/** Checks rule files in a thread of its own: the entry that `openFileChecker` runs. */
serveThread(createFileChecker);
