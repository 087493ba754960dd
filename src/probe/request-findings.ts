import { crc32 } from 'node:zlib';

import { lengthAnswer, tagFindings } from './answer-findings.ts';
import type { ArchiveFacts } from './archive.ts';
import type { ContentsSeen, FileSeen } from './contents.ts';
import type { Finding } from './table.ts';
import { findingsOf } from './finding.ts';
import type { ProbeAnswer } from './connection.ts';
import { isArchive } from './subjects.ts';
import { mediaType, shapeOf, yesNo } from './words.ts';

/** What the answers to requests for contents in other ways mean. */
export function readRequests({ slash, head, subject }: ContentsSeen): Finding[] {
  const find = findingsOf('Files and requests');
  const length = head.headers['content-length'] !== undefined && head.headers['content-length'] !== '0';
  return [
    find(
      'requests.slash',
      'is …/contents/ answered?',
      isArchive(slash) ? 'yes' : shapeOf(slash),
      'the mirror sends no slash at the end',
    ),
    find(
      'requests.head',
      'is HEAD of an archive answered?',
      head.status === 200 ? `yes, ${length ? 'with a length' : 'without a length'}` : `status ${head.status}`,
      'the mirror asks with GET only',
    ),
    find(
      'requests.disposition',
      'is a file name suggested for an archive?',
      yesNo(subject.archive.headers['content-disposition'] !== undefined),
      'the mirror does not use it',
    ),
  ];
}

/** What the answers for a single file mean. */
export function readFile({ file, facts }: ContentsSeen): Finding[] {
  const find = findingsOf('Files and requests');
  if (file === null)
    return [
      find(
        'files.content',
        'is a file what the archive has?',
        'no file was found',
        'the mirror downloads archives',
      ),
    ];
  const { answer, head, conditional, range, compressed } = file;
  const coding = compressed.headers['content-encoding'];
  return [
    find(
      'files.content',
      'is a file what the archive has?',
      answer.status === 200 ? yesNo(isSameFile(file, facts)) : shapeOf(answer),
      'the mirror downloads archives, not single files',
    ),
    find(
      'files.media_type',
      'media type of a workbook',
      mediaType(answer.headers['content-type']),
      'the mirror does not use it',
    ),
    find(
      'files.length',
      'is the length of a file announced?',
      lengthAnswer(answer),
      'the mirror does not use it',
    ),
    ...tagFindings(find, 'files', answer, conditional),
    find(
      'files.head',
      'is HEAD of a file answered?',
      `status ${head.status}`,
      'the mirror asks with GET only',
    ),
    find(
      'files.range',
      'is a range of a file given?',
      rangeAnswer(file, range),
      'the mirror asks for whole archives',
    ),
    find(
      'files.coding',
      'is a file compressed on the way when that is allowed?',
      coding === undefined ? 'no' : `yes: ${/^[a-z]{2,10}$/.test(coding) ? coding : 'another coding'}`,
      'the mirror undoes gzip, deflate, br and zstd, and asks for none',
    ),
  ];
}

function isSameFile({ path, answer }: FileSeen, facts: ArchiveFacts | null): boolean {
  const files = [...(facts?.files ?? [])];
  const entry = files.find(([name]) => name === path || name.endsWith(`/${path}`))?.[1];
  return entry !== undefined && entry.sizeBytes === answer.body.length && entry.crc32 === crc32(answer.body);
}

function rangeAnswer({ answer }: FileSeen, range: ProbeAnswer): string {
  if (range.status === 206)
    return range.body.equals(answer.body.subarray(1, 4)) ? 'yes: 206' : '206, but another part';
  return range.status === 200 ? 'no: the whole file' : `no: status ${range.status}`;
}
