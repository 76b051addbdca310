import type { OpenOperatorPart } from '../../serve/control/part.ts';
import type { StatusPart } from '../status/open.ts';
import { assetRoutes, consoleFolder } from './assets.ts';
import { Feed } from './feed.ts';
import { consoleOperations } from './operations.ts';

/** The files of the web console, and what its pages show. */
export const openConsole: OpenOperatorPart = (options, _settings, { gathered, opened }) => {
  const status = (): StatusPart => opened.get('status') as StatusPart; // which this part extends
  const feed = new Feed(options, gathered, (isFor) => status().attention(isFor));
  const history = () => [...opened.values()].find((part) => part.history)?.history;
  return {
    pages: assetRoutes(consoleFolder),
    operations: consoleOperations({ ...options, feed, gathered, history }),
    refusing: (isFor) => feed.rules.refusingMost(1, isFor, options.clock())[0]?.rule,
  };
};
