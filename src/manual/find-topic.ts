import { likely } from '../lib/text/nearest.ts';
import { type Topic, topicName } from './chapters.ts';

/**
 * Finds a topic by its name or title, or by any words of it, or the beginning of one, that only this topic has.
 * @param others names of other kinds that may have been meant
 * @returns the topic or, without one, the names that may have been meant, the likeliest first
 */
export function findTopic(
  topics: readonly Topic[],
  asked: string,
  others: readonly string[] = [],
): Topic | readonly string[] {
  const name = topicName(asked);
  const exact = topics.find((topic) => topic.name === name || topic.file === name);
  if (exact !== undefined) return exact;
  const withPart = (part: string): Topic[] => topics.filter((topic) => `-${topic.name}-`.includes(part));
  const whole = withPart(`-${name}-`);
  const holding = whole.length === 0 && name !== '' ? withPart(`-${name}`) : whole;
  const [only] = holding;
  if (only !== undefined) return holding.length === 1 ? only : holding.map((topic) => topic.name);
  const names = topics.flatMap((topic) => [topic.name, topic.file ?? []].flat());
  const words = topics.flatMap((topic) => topic.name.split('-').filter((word) => word.length > 3));
  const near = likely(name, [...names, ...others, ...words]);
  return near === undefined ? [] : [near];
}
