import { REFERENCE_FORMS, type ReferenceForm } from '../mirror/upstream/reference-forms.ts';
import { readArchive, readFolder } from './archive-findings.ts';
import { contentKey } from './archive.ts';
import type { ContentsSeen } from './contents.ts';
import type { Finding } from './table.ts';
import { findingsOf } from './finding.ts';
import { readFile, readRequests } from './request-findings.ts';
import type { ProbeAnswer } from './connection.ts';
import { isArchive, type ReferencesSeen, workingForm } from './subjects.ts';
import { shapeOf } from './words.ts';

const FORM_WORDS: Readonly<Record<ReferenceForm, string>> = {
  id: 'the id',
  full_name_encoded: 'the full name, slashes encoded',
  full_name: 'the full name, slashes as they are',
  name: 'the short name',
};

/** What the mirror makes of an answer for what is not there. */
export function absenceMeaning({ status }: ProbeAnswer, isBelieved: string): string {
  if (status === 404 || status === 410) return isBelieved;
  if (status === 400) return 'the mirror takes it for absent, but not as proof';
  if (status === 403) return 'the mirror takes it for forbidden, never for gone';
  if (status >= 200 && status < 300)
    return 'the mirror cannot tell this from success by the status: it goes by the kind of the answer';
  return 'the mirror takes it for a failure, never for gone';
}

/** What the answers to the forms of reference mean. */
export function readReferences(seen: ReferencesSeen): Finding[] {
  const find = findingsOf('References and branches');
  const form = workingForm(seen);
  const forms = seen.tried.map(({ repository, answers }) =>
    find(
      repository.url === null ? 'references.drag_and_drop' : 'references.git',
      repository.url === null
        ? 'which forms of {repo} name a drag-and-drop repository?'
        : 'which forms of {repo} name a Git repository?',
      formsAnswer(answers),
      form === null
        ? 'the mirror cannot download anything: please report this'
        : `the mirror will use ${FORM_WORDS[[...answers].find(([, answer]) => isArchive(answer))?.[0] ?? form]}`,
    ),
  );
  const { ambiguous, absent } = seen;
  return [
    ...forms,
    find(
      'references.ambiguous',
      'what does a short name that several have give?',
      ambiguous === null
        ? 'no short name is shared'
        : isArchive(ambiguous)
          ? 'one of them'
          : shapeOf(ambiguous),
      'the mirror never asks by such a name',
    ),
    find(
      'references.absent',
      'what does an unknown repository give?',
      shapeOf(absent),
      absenceMeaning(absent, 'the mirror goes by the list of repositories, and tries the other forms'),
    ),
  ];
}

function formsAnswer(answers: ReadonlyMap<ReferenceForm, ProbeAnswer>): string {
  return REFERENCE_FORMS.flatMap((form) => {
    const answer = answers.get(form);
    if (answer === undefined) return [];
    return [`${FORM_WORDS[form].replace(/^the /, '')}: ${isArchive(answer) ? 'yes' : shapeOf(answer)}`];
  }).join('; ');
}

/** What the answers about the subject's branches and archives mean. */
export function readContents(seen: ContentsSeen): Finding[] {
  return [
    ...readBranches(seen),
    ...readArchive(seen),
    ...readFolder(seen),
    ...readRequests(seen),
    ...readFile(seen),
  ];
}

/** Says what stands in the place of the findings when no repository could be downloaded. */
export function noSubject(maxDownload: string): Finding[] {
  const why = `nothing to look into: no repository with files could be downloaded within ${maxDownload}`;
  return [
    findingsOf('Archives')(
      'archives.subject',
      'could an archive be looked into?',
      why,
      'the questions about archives and files were left out',
    ),
  ];
}

/** Which of the listed branches has the content that is given without a branch. */
function omittedBranch({ omitted, omittedTag, branches, listedBranches }: ContentsSeen): string {
  if (omitted === null) return 'no archive';
  if (listedBranches === 0) return 'no branch is listed to compare with';
  const key = contentKey(omitted);
  const same = branches.flatMap(({ facts, tag }, index) => {
    const isSame = facts !== null && contentKey(facts) === key;
    const isTagged = tag !== undefined && omittedTag === tag && !tag.startsWith('W/');
    return isSame || isTagged ? [index + 1] : [];
  });
  const of = `${branches.length} compared`;
  if (same.length === 0) return `none of the listed branches (${of})`;
  return same.length === 1 ? `one listed branch (${of})` : `${same.length} listed branches alike (${of})`;
}

function readBranches(seen: ContentsSeen): Finding[] {
  const find = findingsOf('References and branches');
  return [
    find(
      'branches.omitted',
      'which branch is given when none is named?',
      omittedBranch(seen),
      'the mirror names the branch, and leaves it out only where none is listed (HEAD)',
    ),
    find(
      'branches.absent',
      'what does an unknown branch give?',
      shapeOf(seen.absentBranch),
      absenceMeaning(seen.absentBranch, 'a branch is retired when it is in no list and this is its answer'),
    ),
    find(
      'paths.absent',
      'what does an unknown path give?',
      shapeOf(seen.absentPath),
      absenceMeaning(
        seen.absentPath,
        'the mirror may ask for single paths, to tell a folder around everything',
      ),
    ),
  ];
}
