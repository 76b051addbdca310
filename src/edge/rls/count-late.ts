import type { Decider } from '../../engine/decide/decide.ts';
import { chargeLate } from '../../engine/decide/late-hits.ts';
import { decodeRequest } from '../../engine/wire/codec.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';

/** Counts the hits of equal requests that were not decided in time. Never throws. */
export type CountLate = (request: WireRequest, times: number) => void;

export const createCountLate =
  (decider: Decider): CountLate =>
  (request, times) => {
    try {
      chargeLate(decodeRequest(request), times, decider);
    } catch {
      // the request is invalid or too costly: nothing is counted, as if it had been in time
    }
  };
