import { serveParent } from '../../processes/child.ts';
import { drive, type Load, type Tally } from './drive.ts';
import { driveHttp, type HttpLoad, type HttpTally } from './drive-http.ts';

serveParent<Load | HttpLoad, Tally | HttpTally>((load) => ('users' in load ? driveHttp(load) : drive(load)));
