import { type Deciding, methodPaths } from '../../edge/grpc/side-service.ts';
import type { OfferedService } from '../../edge/http/api.ts';
import type { HoldsService } from './service.ts';

const paths = methodPaths('weir.v1.Holds', ['Acquire', 'Renew', 'Release', 'Reserve', 'Commit']);

/** Slots and reservations for callers that are not proxies. */
export const offerHolds = ({ decider, onCommit }: Deciding): OfferedService =>
  hostHolds(async () => {
    const [{ createHoldsService }, { createSlots }, { createReservations }] = await Promise.all([
      import('./service.ts'),
      import('./slots.ts'),
      import('./reservations.ts'),
    ]);
    return createHoldsService(createSlots(decider), createReservations(decider, onCommit));
  });

/** @param create  called once, since the callers of all doors wait in the same queues */
export function hostHolds(create: () => Promise<HoldsService>): OfferedService {
  let created: Promise<HoldsService> | undefined;
  const open = (): Promise<HoldsService> => {
    created ??= create();
    return created;
  };
  return {
    paths,
    load: async (overload) => (await import('./methods.ts')).holdsMethods(await open(), overload),
    pages: async (overload) => (await import('./pages.ts')).holdPages(await open(), overload),
  };
}
