import { MAX_COMPARED_CHARACTERS, TextDistance } from '../../../base/nearest.ts';
import { RequestWork } from '../../../base/request-work.ts';

/** Maximum number of texts that one search compares. */
const MAX_OF_A_SEARCH = 2_000;
/** Maximum number of texts that the searches for one descriptor compare in total, a few milliseconds of work. */
const MAX_OF_A_DESCRIPTOR = 8_000;

/** Finds likely corrections of misspelt texts. The work of all searches is bounded; beyond it, they find nothing. */
export class NearestTexts {
  #left: number;
  readonly work: RequestWork;

  /** @param mostCompared  the maximum number of texts that all searches compare in total */
  constructor(mostCompared = MAX_OF_A_DESCRIPTOR, work = new RequestWork()) {
    this.#left = mostCompared;
    this.work = work;
  }

  get isUsedUp(): boolean {
    return this.#left <= 0;
  }

  /** Uses up one comparison, for work that costs as much. @returns whether one was left */
  take(): boolean {
    return this.#left-- > 0;
  }

  /**
   * The items whose text is most similar to the given one, in order of similarity. Case and punctuation hardly count.
   */
  find<T>(to: string, items: Iterable<T>, text: (item: T) => string, count: number): readonly T[] {
    const found: { readonly item: T; readonly distance: number }[] = [];
    const first = to.slice(0, MAX_COMPARED_CHARACTERS);
    const edits = new TextDistance(plain(first));
    let compared = 0;
    for (const item of items) {
      if (compared++ >= MAX_OF_A_SEARCH || !this.take()) break;
      const most = found.length < count ? Number.POSITIVE_INFINITY : (found.at(-1)?.distance ?? 0);
      const second = text(item).slice(0, MAX_COMPARED_CHARACTERS);
      const distance = edits.to(plain(second), most) + (first === second ? 0 : 0.5); // 0.5: case, punctuation
      if (distance >= most) continue;
      if (found.length === count) found.pop();
      const at = found.findIndex((one) => one.distance > distance);
      found.splice(at < 0 ? found.length : at, 0, { item, distance });
    }
    return found.map(({ item }) => item);
  }
}

const plain = (text: string): string => text.toLowerCase().replace(/[-_. ]/g, '');
