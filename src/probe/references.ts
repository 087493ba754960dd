import { isDeepStrictEqual } from 'node:util';

import { contentsPath } from '../lib/api/requests.ts';
import type { ReferenceForm } from '../lib/api/references.ts';
import { readArchive } from './archive.ts';
import type { ProbeAnswer } from './connection.ts';
import { type Entry, statementsOf } from './statement.ts';
import type { Subject } from './subject.ts';
import { given, holds } from './verdict.ts';
import { isArchive, shapeOf } from './words.ts';

/** A name that no service has. */
export const MISSING = 'no-such-thing-4b1c9e';

const FORM_WORDS: Readonly<Record<ReferenceForm, string>> = {
  id: 'id',
  full_name_encoded: 'full name, slashes encoded',
  full_name: 'full name, slashes as they are',
  name: 'short name',
};

/** Asks which forms of reference work for a kind of repository. */
function ofReferences(what: string, kind: 'git' | 'dragAndDrop'): Entry {
  return {
    says: `which forms of {repo} name a ${what} repository?`,
    check: async (subject) => {
      const answers = (await subject.references())[kind];
      given(answers !== null, 'there is none of that kind');
      return [...answers]
        .map(([form, answer]) => `${FORM_WORDS[form]}: ${isArchive(answer) ? 'yes' : shapeOf(answer)}`)
        .join('; ');
    },
    meaning: (answer, outcome) => {
      if (outcome === 'not tried') return null;
      const form = Object.values(FORM_WORDS).find((words) => answer.includes(`${words}: yes`));
      return form === undefined
        ? 'the mirror cannot download these: please report this'
        : `the mirror will use the ${form}`;
    },
  };
}

/** A statement about missing content. @param meaning of an answer that says so plainly */
function ofAbsence(what: string, ask: (subject: Subject) => Promise<ProbeAnswer>, meaning: string): Entry {
  return {
    section: '7',
    kind: 'optional',
    says: `contents of ${what} that does not exist are not answered with success`,
    check: async (subject) => {
      const answer = await ask(subject);
      holds(answer.status < 200 || answer.status > 299, shapeOf(answer));
      return shapeOf(answer);
    },
    meaning: (answer, outcome) => (outcome === 'not tried' ? null : absenceMeaning(answer, meaning)),
  };
}

/** The consequence of an answer about missing content. @param isBelieved the consequence if the answer says so */
export function absenceMeaning(answer: string, isBelieved: string): string {
  const status = Number.parseInt(answer, 10);
  if (status === 404 || status === 410) return isBelieved;
  if (status === 400) return 'the mirror treats it as absent, but not as proof';
  if (status === 403) return 'the mirror treats it as forbidden, never as deleted';
  if (status >= 200 && status < 300)
    return 'the status looks like success: the mirror decides by the kind of the answer';
  return 'the mirror treats it as a failure, never as deleted';
}

async function checkOmittedBranch(subject: Subject): Promise<string> {
  const samples = await subject.samples();
  const [{ repository, reference }] = samples;
  const answer = await subject.askContents({ reference, branch: null });
  const { files } = await readArchive(answer, samples[0].listed);
  const named = samples.filter((each) => each.repository.id === repository.id && each.branch !== null);
  const alike = named.filter((each) => isDeepStrictEqual(each.files, files));
  return `the same as ${alike.length} of ${named.length} listed branches`;
}

/** Statements about the values of `{repo}`, `{path}` and `branch`. */
export const REFERENCE_STATEMENTS = statementsOf(
  { group: 'References and branches', section: '4.1', kind: 'open' },
  {
    'references.git': ofReferences('Git', 'git'),
    'references.drag_and_drop': ofReferences('drag-and-drop', 'dragAndDrop'),
    'references.absent': ofAbsence(
      'a repository',
      (subject) => subject.ask({ target: contentsPath(MISSING) }),
      'the mirror follows the list of repositories, and tries the other forms',
    ),
    'branches.absent': ofAbsence(
      'a branch',
      async (subject) => {
        const [{ reference }] = await subject.samples();
        return subject.askContents({ reference, branch: MISSING });
      },
      'a branch is retired when it is in no list and this is its answer',
    ),
    'paths.absent': ofAbsence(
      'a path',
      async (subject) => subject.askContents((await subject.samples())[0], `${MISSING}/${MISSING}.xlsx`),
      'the mirror may request single paths, to detect a folder around everything',
    ),
    'branches.omitted': {
      kind: 'required',
      says: 'branch may be omitted; which one is given then?',
      check: checkOmittedBranch,
    },
  },
);
