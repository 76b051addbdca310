import { playOn } from './play.ts';

playOn("Redis under the other service's keys", 'a Cluster');
