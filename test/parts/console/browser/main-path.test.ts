import '../../../helpers/realm.ts';
import { startBrowser, type TestBrowser } from '../../../helpers/browser.ts';
import { send, signIn, TOKEN, viewAt } from '../../../helpers/console.ts';
import { eventually } from '../../../helpers/until.ts';
import { startWeir, type Weir } from '../../../helpers/weir.ts';

let browser: TestBrowser;
let weir: Weir;
beforeAll(async () => {
  [browser, weir] = await Promise.all([startBrowser(), startWeir({ ADMIN_TOKEN: TOKEN, USE_STATSD: 'false' })]);
});
afterAll(() => Promise.all([browser.close(), weir.stop()]));

const statusOf = (hits = 1): Promise<number> => send(weir, 'demo', [['api_key', 'olga']], hits);

test('an operator signs in, finds a refused client in the overview, reads its rule, and lets it in with two clicks', async () => {
  const page = await browser.open();
  await signIn(page, weir);
  await page.goto(viewAt(weir));
  await page.getByText('Live', { exact: true }).waitFor();
  expect(await statusOf(11)).toBe(429);
  await page.getByRole('row', { name: 'api_key=olga' }).getByRole('link', { name: 'demo.api_key' }).click();
  await page.getByRole('heading', { name: 'demo.api_key' }).waitFor();
  await page.goBack();
  await page
    .getByRole('heading', {
      name: /^1 of 1 request \(100 %\) of the last minute was refused, most by demo\.api_key\./,
    })
    .waitFor();
  await page.getByRole('link', { name: 'Let in api_key=olga' }).click();
  const dialog = page.getByRole('dialog', { name: 'Let in' });
  await dialog.getByLabel('Reason').fill('support case 8');
  await dialog.getByRole('button', { name: 'Let in' }).click();
  await page.getByText('The override is set.').waitFor();
  await eventually(async () => (await statusOf(11)) === 200);
  await page.getByText('Let in', { exact: true }).waitFor();
  await page.goto(viewAt(weir));
  await page.getByRole('listitem').filter({ hasText: 'Override set by admin: exempt api_key=olga' }).waitFor();
  expect(await browser.endTest()).toEqual([]); // no script error, and no request to another host
});
