import { existsSync } from 'node:fs';

const above = (folder: URL): URL =>
  existsSync(new URL('package.json', folder)) ? folder : above(new URL('../', folder));

/** The folder of the package: above its sources, and above its build. */
export const packageRoot = above(new URL('../', import.meta.url));
