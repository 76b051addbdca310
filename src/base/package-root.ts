import { existsSync } from 'node:fs';

const above = (folder: URL): URL =>
  existsSync(new URL('package.json', folder)) ? folder : above(new URL('../', folder));

/** Folder of the package, above both its sources and its build. */
export const packageRoot = above(new URL('../', import.meta.url));
