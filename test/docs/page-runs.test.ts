import '../helpers/realm.ts';
import { updateOrCompare } from '../helpers/pages/compare.ts';
import { pageRuns } from '../helpers/pages/runs.ts';

test('the commands of README.md print the output that it shows', () =>
  updateOrCompare('README.md', pageRuns['README.md']));
