import type { OpenOperatorPart } from '../../serve/control/part.ts';
import { assetRoutes } from './assets.ts';

/** The files of the web console. */
export const consolePages: OpenOperatorPart = async () => ({ pages: await assetRoutes() });
