import { parseArgs } from 'node:util';
import { showHelp } from '../deploy/usage.ts';

const usage = `Usage: npm run site [-- options]

Builds the documentation in docs/ as a site with search into site/dist. It needs no network.

  --out DIR    where to put it instead
  --base PATH  the path that it is served under (/)
  --serve      serve site/dist on localhost:4173 afterwards
`;

showHelp(usage);
const { values } = parseArgs({
  options: { out: { type: 'string' }, base: { type: 'string' }, serve: { type: 'boolean', default: false } },
});
const { out, base } = values;
const { build, serve } = await import('vitepress');
await build('site', { ...(out !== undefined && { outDir: out }), ...(base !== undefined && { base }) });
if (values.serve) await serve({ root: 'site', ...(base !== undefined && { base }) });
