import { likely } from '../lib/text/nearest.ts';
import { topicName } from './chapters.ts';
import { type Block, plainText } from './markdown.ts';

/** A section of the manual with everything below its heading. */
export interface Topic {
  /** Its title in small letters, joined with dashes, as in an address on a web page. */
  readonly name: string;
  readonly title: string;
  /** Another name, that of the file of a chapter; undefined for a part of one. */
  readonly file: string | undefined;
  /** 2 for a section, 3 for a part of one. */
  readonly level: number;
  /** Its heading is the first. */
  readonly blocks: readonly Block[];
}

/** The topic of a name or, without one, the names that may have been meant, the likeliest first. */
export type FoundTopic =
  | { readonly topic: Topic }
  | { readonly topic: undefined; readonly near: readonly string[] };

/**
 * The topics of a text, in its order: every section, and every part of one.
 * @param file of a chapter, under the name of which its heading is known, too
 */
export function topicsOf(blocks: readonly Block[], file?: string): Topic[] {
  return blocks.flatMap((block, index) => {
    if (block.kind !== 'heading' || block.level < 2 || block.level > 3) return [];
    const rest = blocks.slice(index + 1);
    const end = rest.findIndex((other) => other.kind === 'heading' && other.level <= block.level);
    const title = plainText(block.spans);
    const own = end === -1 ? rest : rest.slice(0, end);
    const isChapter = block.level === 2;
    const topic = { name: topicName(title), title, level: block.level, blocks: [block, ...own] };
    return [{ ...topic, file: isChapter ? file : undefined }];
  });
}

/**
 * Finds a topic by its name or title, or by any words of it, or the beginning of one, that only this topic has.
 * @param others names of other kinds that may have been meant
 */
export function findTopic(
  topics: readonly Topic[],
  asked: string,
  others: readonly string[] = [],
): FoundTopic {
  const name = topicName(asked);
  const exact = topics.find((topic) => topic.name === name || topic.file === name);
  if (exact !== undefined) return { topic: exact };
  const holding = topicsWith(topics, `-${name}-`);
  if (holding.length === 0 && name !== '') holding.push(...topicsWith(topics, `-${name}`));
  const [only] = holding;
  if (only !== undefined && holding.length === 1) return { topic: only };
  if (only !== undefined) return { topic: undefined, near: holding.map((topic) => topic.name) };
  const words = topics.flatMap((topic) => topic.name.split('-').filter((word) => word.length > 3));
  const near = likely(name, [
    ...topics.flatMap((topic) => [topic.name, topic.file ?? []].flat()),
    ...others,
    ...words,
  ]);
  return { topic: undefined, near: near === undefined ? [] : [near] };
}

function topicsWith(topics: readonly Topic[], part: string): Topic[] {
  return topics.filter((topic) => `-${topic.name}-`.includes(part));
}
