import { contentsPath } from '../lib/api/requests.ts';
import {
  countNames,
  REFERENCE_FORMS,
  type ReferenceForm,
  referencesFor,
} from '../mirror/upstream/contents.ts';
import type { Repository } from '../mirror/upstream/listing.ts';
import { contentKey, examineArchive } from './archive.ts';
import type { Ask } from './asker.ts';
import type { ProbeAnswer } from './connection.ts';
import { withSharedNames } from './repositories.ts';
import { orderCandidates, pathIn, type Subject } from './subject.ts';
import { type Question, type Seen, table } from './table.ts';
import { archiveOrShape, isArchive, shapeOf } from './words.ts';
import type { ListedWorkbook } from './workbook-list.ts';

/** A name that no service has. */
export const MISSING = 'no-such-thing-4b1c9e';

const FORM_WORDS: Readonly<Record<ReferenceForm, string>> = {
  id: 'the id',
  full_name_encoded: 'the full name, slashes encoded',
  full_name: 'the full name, slashes as they are',
  name: 'the short name',
};

type AnswersByForm = ReadonlyMap<ReferenceForm, ProbeAnswer>;

/** How one repository of each kind answers to the forms of reference; null where there is none of that kind. */
export interface ReferencesTried {
  readonly git: AnswersByForm | null;
  readonly dragAndDrop: AnswersByForm | null;
  /** The form that the mirror would use; null where none works. */
  readonly form: ReferenceForm | null;
  /** A short name that several repositories have; null where there is none. */
  readonly sharedName: string | null;
}

/** Asks for one repository of each kind in every form. */
export async function tryReferences(
  ask: Ask,
  repositories: readonly Repository[],
  listed: readonly ListedWorkbook[],
): Promise<ReferencesTried> {
  const candidates = orderCandidates(repositories, listed);
  const counts = countNames(repositories);
  const tryOne = async (repository: Repository | undefined): Promise<AnswersByForm | null> => {
    if (repository === undefined) return null;
    const answers = new Map<ReferenceForm, ProbeAnswer>();
    for (const { form, text } of referencesFor(repository, counts, null))
      answers.set(form, await ask({ target: contentsPath(text) }));
    return answers;
  };
  const git = await tryOne(candidates.find(({ url }) => url !== null));
  const dragAndDrop = await tryOne(candidates.find(({ url }) => url === null));
  const form = workingForm(git) ?? workingForm(dragAndDrop);
  return { git, dragAndDrop, form, sharedName: withSharedNames(repositories)[0]?.name ?? null };
}

function workingForm(answers: AnswersByForm | null): ReferenceForm | null {
  return [...(answers ?? [])].find(([, answer]) => isArchive(answer))?.[0] ?? null;
}

/** Questions about what `{repo}` may be. */
export const REFERENCES = table<ReferencesTried>('References and branches', {
  'references.git': formsQuestion('which forms of {repo} name a Git repository?', ({ git }) => git),
  'references.drag_and_drop': formsQuestion(
    'which forms of {repo} name a drag-and-drop repository?',
    ({ dragAndDrop }) => dragAndDrop,
  ),
  'references.ambiguous': {
    question: 'what does a short name that several have give?',
    ask: ({ sharedName }) =>
      sharedName === null ? [] : [{ target: contentsPath(encodeURIComponent(sharedName)) }],
    read: ({ sharedName, answer }) => {
      if (sharedName === null) return 'no short name is shared';
      return isArchive(answer) ? 'one of them' : shapeOf(answer);
    },
    meaning: 'the mirror never asks by such a name',
  },
  'references.absent': {
    question: 'what does an unknown repository give?',
    ask: [{ target: contentsPath(MISSING) }],
    read: ({ answer }) => shapeOf(answer),
    meaning: ({ answer }) =>
      absenceMeaning(answer, 'the mirror goes by the list of repositories, and tries the other forms'),
  },
});

/** A question that is left out where there is no such repository. */
function formsQuestion(
  question: string,
  answersOf: (tried: ReferencesTried) => AnswersByForm | null,
): Question<ReferencesTried> {
  return {
    question,
    read: (tried) => {
      const answers = answersOf(tried);
      if (answers === null) return null;
      return REFERENCE_FORMS.flatMap((form) => {
        const answer = answers.get(form);
        if (answer === undefined) return [];
        return [`${FORM_WORDS[form].replace(/^the /, '')}: ${archiveOrShape(answer)}`];
      }).join('; ');
    },
    meaning: (tried) => {
      const form = workingForm(answersOf(tried)) ?? tried.form;
      return form === null
        ? 'the mirror cannot download anything: please report this'
        : `the mirror will use ${FORM_WORDS[form]}`;
    },
  };
}

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

/** The consequence of an answer for something absent. @param isBelieved of an answer that says so */
export function absenceMeaning({ status }: ProbeAnswer, isBelieved: string): string {
  if (status === 404 || status === 410) return isBelieved;
  if (status === 400) return 'the mirror takes it for absent, but not as proof';
  if (status === 403) return 'the mirror takes it for forbidden, never for gone';
  if (status >= 200 && status < 300)
    return 'the mirror cannot tell this from success by the status: it goes by the kind of the answer';
  return 'the mirror takes it for a failure, never for gone';
}
