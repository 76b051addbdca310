const root = process.argv[2]; const count = Number(process.argv[3] ?? 2000); const seed = Number(process.argv[4] ?? 1);
const h = await import(`${root}/test/helpers/limits.ts`);
const { slidingWindowLogOf, slidingWindowCounterOf, slidingWindowBucketsOf, tokenBucketOf, leakyBucketOf, allocationOf, inFlightOf, reservationOf } = h;
const path = [{ key: 'a', reserve: 3, weight: 2, ceiling: 8 }, { key: 'b', reserve: 1, weight: 1, ceiling: 0 }];
const s = await import(`${root}/test/helpers/steps.ts`);
const fs = await import('node:fs');
const src = fs.readFileSync('/work/h-compile/test/engine/lua/compiled.test.ts', 'utf8');
const list = eval(src.slice(src.indexOf('= [\n', src.indexOf('const recorded')) + 2, src.indexOf('];', src.indexOf('const recorded')) + 1));
for (const [name, limit] of list) {
  if (process.argv[5] && !name.includes(process.argv[5])) continue;
  try {
  const steps = s.drawSteps(limit, seed, count);
  console.log(name, '|', s.digestSteps(steps, s.runSteps(limit, steps)));
  } catch (e) { console.log(name, '|', String(e.stack)); }
}
