/** The folder of package.json, `proto/` and `config/`. This file, and all of a build, lies one level below it. */
export const packageRoot = new URL('../', import.meta.url);
