/** The folder of package.json, `proto/` and `config/`. This file, and every build output, is one level below it. */
export const packageRoot = new URL('../', import.meta.url);
