import { readArchive, readFolder } from './archive-findings.ts';
import { contentKey } from './archive.ts';
import type { ContentsSeen } from './contents.ts';
import type { Finding } from './table.ts';
import { findingsOf } from './finding.ts';
import { readFile, readRequests } from './request-findings.ts';
import { absenceMeaning } from './references.ts';
import { shapeOf } from './words.ts';

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
