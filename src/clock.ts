/** Milliseconds since the Unix epoch, whole. Handed in wherever time matters, so that a test can replay any schedule. */
export type Clock = () => number;
