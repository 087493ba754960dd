/** The longest time that a timer of Node can wait, in milliseconds: a little under 25 days. A longer one fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;
