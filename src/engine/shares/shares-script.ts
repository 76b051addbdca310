/** The twin of `stepShares` for Redis. */
export const sharesScript = new URL('./shares.lua', import.meta.url);
