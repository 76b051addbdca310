import { randomUUID } from 'node:crypto';
import { shareRuns } from '../../base/later.ts';
import { fields, text, type ValueOf } from '../../base/shape.ts';
import type { Records } from '../../engine/backends/records.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { valid } from '../../operate/admin/schema.ts';
import type { CandidateBook, PostedCandidate } from './book.ts';

/** The id of the newest text: small, since it is read at every poll. */
const NEWEST = 'candidate';
const TEXTS = 'candidate_text';
const FIELD = 'newest';

/** The interval at which the records are read: other instances may have changed them. */
export const CANDIDATE_INTERVAL_MS = 2_000;

/** The record of the last change by an operator; without `posted`, the trial was ended. */
const record = fields({ id: text }, { posted: fields({ text, by: text, reason: text }) });
type SentCandidate = ValueOf<typeof record>;

/** @throws Error  another program has written it */
function parseCandidate(written: string): SentCandidate {
  try {
    return valid(record, JSON.parse(written), 'the record');
  } catch (error) {
    throw new Error(
      `the candidate in the store is not used: ${error instanceof Error ? error.message : error}; send one`,
    );
  }
}

/** Stores the candidate that operators send in the records, and applies it to this instance. */
export class CandidateRecords {
  readonly #records: Records;
  readonly #book: CandidateBook;
  #seen: string | undefined;
  /** The newest id, if the text read with it had another id. */
  #textless: string | undefined;

  constructor(records: Records, book: CandidateBook) {
    this.#records = records;
    this.#book = book;
  }

  /**
   * Has all instances try the candidate. Resolves when this instance tries it, or has found it invalid.
   *
   * @param posted  undefined: ends the trial
   * @throws ApiProblem  503: the records cannot be reached, and nothing has changed; 409: another candidate was sent at
   * the same time
   */
  async put(posted: PostedCandidate | undefined): Promise<void> {
    const sent: SentCandidate = { id: randomUUID(), ...(posted && { posted }) };
    try {
      await this.#records.put(TEXTS, FIELD, JSON.stringify(sent));
      await this.#records.put(NEWEST, FIELD, sent.id);
    } catch (error) {
      throw new ApiProblem(503, `the store cannot be reached: ${error instanceof Error ? error.message : error}`);
    }
    await this.follow();
    if (this.#textless === sent.id)
      throw new ApiProblem(409, 'another candidate was sent at the same time: send yours again');
  }

  /** Reads the records. While they cannot be read, the candidate read last stays. */
  readonly follow = shareRuns(() => this.#read());

  async #read(): Promise<void> {
    const id = (await this.#records.all(NEWEST)).get(FIELD);
    if (id === undefined || id === this.#seen) return;
    const written = (await this.#records.all(TEXTS)).get(FIELD);
    if (written === undefined) return;
    const { id: found, posted } = parseCandidate(written);
    this.#seen = id;
    if (found !== id) {
      this.#textless = id; // the other text is not accepted before its id is stored
      return;
    }
    if (posted) this.#book.load(posted);
    else if (this.#book.facts.state !== 'off') this.#book.clear();
  }
}
