import type { Attack } from './attack.ts';
import { compressed } from './attacks/compressed.ts';
import { connections } from './attacks/connections.ts';
import { costs } from './attacks/costs.ts';
import { floods } from './attacks/floods.ts';
import { headers } from './attacks/headers.ts';
import { json } from './attacks/json.ts';
import { load } from './attacks/load.ts';
import { ports } from './attacks/ports.ts';
import { questions } from './attacks/questions.ts';
import { quotas } from './attacks/quotas.ts';
import { reservations } from './attacks/reservations.ts';
import { slots } from './attacks/slots.ts';
import { state } from './attacks/state.ts';
import { streams } from './attacks/streams.ts';
import { windows } from './attacks/windows.ts';

/** Every attack, in the order of the table. */
export const attacks: readonly Attack[] = [
  ...[...compressed, ...windows, ...streams, ...floods, ...headers],
  ...[...connections, ...ports, ...state, ...quotas, ...reservations, ...questions, ...slots, ...costs, ...json],
  ...load,
];
