import { contentsPath } from '../lib/api/requests.ts';
import { contentKey, examineArchive } from './archive.ts';
import type { ProbeAnswer } from './connection.ts';
import { absenceMeaning, MISSING } from './references.ts';
import { pathIn, type Subject } from './subject.ts';
import { type Seen, table } from './table.ts';
import { shapeOf } from './words.ts';

/** Branches that are compared, at most. */
const MOST_BRANCHES = 4;

/** Questions about branches and paths of the subject. */
export const BRANCHES = table<Subject>('References and branches', {
  'branches.omitted': {
    question: 'which branch is given when none is named?',
    ask: ({ reference, branch, workbooks, maxBytes }) => {
      if (branch === null) return [];
      const names = [...new Set(workbooks.map((each) => each.branch))];
      // The archive is that of the first branch.
      return [...names.slice(1, MOST_BRANCHES), undefined].map((name) => ({
        target: contentsPath(reference, undefined, name),
        maxBytes,
      }));
    },
    read: omittedBranch,
    meaning: 'the mirror names the branch, and leaves it out only where none is listed (HEAD)',
  },
  'branches.absent': {
    question: 'what does an unknown branch give?',
    ask: ({ reference }) => [{ target: contentsPath(reference, undefined, MISSING) }],
    read: ({ answer }) => shapeOf(answer),
    meaning: ({ answer }) =>
      absenceMeaning(answer, 'a branch is retired when it is in no list and this is its answer'),
  },
  'paths.absent': {
    question: 'what does an unknown path give?',
    ask: (subject) => [{ target: pathIn(subject, `${MISSING}/${MISSING}.xlsx`) }],
    read: ({ answer }) => shapeOf(answer),
    meaning: ({ answer }) =>
      absenceMeaning(answer, 'the mirror may ask for single paths, to tell a folder around everything'),
  },
});

/** Which of the listed branches has the contents that are given without a branch. */
async function omittedBranch(seen: Seen<Subject>): Promise<string> {
  const named = [seen.archive, ...seen.answers];
  const omitted = named.pop() ?? seen.archive;
  const key = await keyOf(omitted);
  if (key === null) return 'no archive';
  if (named.length === 0) return 'no branch is listed to compare with';
  const { etag } = omitted.headers;
  let alike = 0;
  for (const answer of named) {
    const isTagged = etag !== undefined && etag === answer.headers['etag'] && !etag.startsWith('W/');
    if (isTagged || (await keyOf(answer)) === key) alike += 1;
  }
  const of = `${named.length} compared`;
  if (alike === 0) return `none of the listed branches (${of})`;
  return alike === 1 ? `one listed branch (${of})` : `${alike} listed branches alike (${of})`;
}

async function keyOf({ body }: ProbeAnswer): Promise<string | null> {
  const facts = await examineArchive(body, []);
  return facts === null ? null : contentKey(facts);
}
