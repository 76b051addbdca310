import { MAX_LIMIT } from './limit.ts';

/** Budgets count billionths of their currency, so that a price per million tokens is exact to three decimals. */
const DECIMALS = 9;

const AMOUNT = '[0-9]+(\\.[0-9]+)? [A-Z]{3}';
/** An amount of money with its currency (ISO 4217): `500.00 USD`. */
export const MONEY = `^${AMOUNT}$`;
/** What hits cost: `0.01 USD`, `0.0025 USD per 1000`. */
export const UNIT_COST = `^${AMOUNT}( per [1-9][0-9]{0,14})?$`;

export interface Money {
  /** Billionths of the currency. */
  readonly billionths: number;
  readonly currency: string;
}

/**
 * Reads an amount, or a price for one hit, without rounding.
 *
 * @param written  as `MONEY` or `UNIT_COST` describe it
 * @returns the amount, or why it cannot be counted exactly
 */
export function parseMoney(written: string): Money | string {
  const [amount = '', currency = '', , per = '1'] = written.split(' ');
  if (!new RegExp(UNIT_COST).test(written)) return 'it is no amount and currency';
  const [whole = '', fraction = ''] = amount.split('.');
  const decimals = Math.max(fraction.length, DECIMALS);
  const billionths = BigInt(whole + fraction.padEnd(decimals, '0'));
  const unit = BigInt(per) * 10n ** BigInt(decimals - DECIMALS);
  if (billionths % unit !== 0n) return `it has a fraction of a billionth of a ${currency}`;
  if (billionths / unit > BigInt(MAX_LIMIT)) return `it is more than ${showMoney(MAX_LIMIT, currency)}`;
  return { billionths: Number(billionths / unit), currency };
}

/** Reads an amount, as `parseMoney`; a price is none. */
export const parseAmount = (written: string): Money | string =>
  written.includes(' per ') ? 'it is a price' : parseMoney(written);

/** Exact, with at least two decimals: `12.50 USD`. */
export const showMoney = (billionths: number, currency: string): string => `${decimal(billionths)} ${currency}`;

/** An amount without its currency: `12.50`. */
export function decimal(billionths: number): string {
  const digits = String(Math.abs(billionths)).padStart(DECIMALS + 1, '0');
  const fraction = digits.slice(-DECIMALS).replace(/0{1,7}$/, '');
  return `${billionths < 0 ? '-' : ''}${digits.slice(0, -DECIMALS)}.${fraction}`;
}

/** Something that counts money, if it has a currency. */
interface Counted {
  readonly currency?: string | undefined;
}

/** A count of a limit in its unit, with at most two decimals: `12.50 USD` of a budget, else `7`. */
export const showCount = ({ currency }: Counted, count: number): string =>
  currency === undefined ? String(Number(count.toFixed(2))) : showMoney(Math.round(count), currency);

const CENT = 10 ** (DECIMALS - 2);

/** A count for a field that holds integers up to a maximum: whole cents of a budget, rounded down. */
export const asInteger = ({ currency }: Counted, count: number, maximum: number): number =>
  Math.min(currency === undefined ? count : Math.floor(count / CENT), maximum);
