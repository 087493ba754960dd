import type { Finding } from './table.ts';

/** Findings of one group, put together. */
export type Find = (id: string, question: string, answer: string, meaning: string) => Finding;

/** Makes findings of a group. */
export function findingsOf(group: Finding['group']): Find {
  return (id, question, answer, meaning) => ({ group, id, question, answer, meaning });
}
