import type { Repository } from '../mirror/upstream/listing.ts';
import type { Finding } from './table.ts';
import { type Find, findingsOf } from './finding.ts';
import type { ProbeAnswer } from './connection.ts';
import { allOf, fieldNames, isObject, jsonOf, partOf, shapeOf, tally, timeForms } from './words.ts';
import { readPages } from './page-findings.ts';
import { listedWorkbooks, type PageSeen, type WorkbooksSeen } from './workbooks.ts';

const FIELDS = new Set(['type', 'id', 'name', 'display_name', 'integration', 'version', 'status']);
const VERSION_FIELDS = new Set([
  'id',
  'author',
  'action',
  'created_at',
  'message',
  'status',
  'branch',
  'parent',
]);
const PAGE_FIELDS = new Set(['count', 'next', 'previous', 'results']);

/** What the answers mean. @param baseUrl the service's base address, to say where `next` leads */
export function readWorkbooks(
  seen: WorkbooksSeen,
  repositories: readonly Repository[],
  baseUrl: string,
): Finding[] {
  const find = findingsOf('Workbooks (v1)');
  if (seen.pages.length === 0) {
    return [find('workbooks.v1', 'is v1 there?', `no: ${shapeOf(seen.first)}`, absenceOfV1(seen.first))];
  }
  return [
    find(
      'workbooks.v1',
      'is v1 there?',
      'yes',
      'changes are found from this list; contents are pulled only where it says so',
    ),
    ...readPages(seen, baseUrl),
    ...readRows(find, seen.pages, repositories),
    ...readFields(find, seen),
  ];
}

function absenceOfV1({ status }: ProbeAnswer): string {
  if (status === 404)
    return 'changes are found from the contents alone: choose a schedule that the service can bear';
  if (status === 403)
    return 'the token may not read the list: a pass will fail until it may, or service.apiToken is left out';
  return 'a pass will fail on this: leave service.apiToken out, and changes are found from the contents alone';
}

function readRows(find: Find, pages: readonly PageSeen[], repositories: readonly Repository[]): Finding[] {
  const rows = pages.flatMap((page) => page.rows);
  const listed = listedWorkbooks(pages);
  const branchesOf = Map.groupBy(listed, ({ integration, path }) => JSON.stringify([integration, path]));
  const onSeveral = [...branchesOf.values()].filter(
    (each) => new Set(each.map(({ branch }) => branch)).size > 1,
  ).length;
  const branches = new Set(listed.map(({ integration, branch }) => JSON.stringify([integration, branch])))
    .size;
  const integrations = [...new Set(listed.map(({ integration }) => integration))];
  const names = new Set(repositories.map(({ fullName }) => fullName));
  const ids = new Set(repositories.map(({ id }) => id));
  const byName = integrations.filter((each) => names.has(each)).length;
  const byId = integrations.filter((each) => !names.has(each) && ids.has(each)).length;
  const unknown = integrations.length - byName - byId;
  const without = repositories.filter(
    ({ id, fullName }) => !integrations.includes(fullName) && !integrations.includes(id),
  ).length;
  return [
    find(
      'workbooks.branches',
      'is a workbook listed once on each branch?',
      onSeveral > 0
        ? `yes: ${onSeveral} of ${branchesOf.size} on several of ${branches} branches`
        : `not seen: each of ${branchesOf.size} on one branch only`,
      onSeveral > 0
        ? 'the mirror knows every branch that has a workbook'
        : 'one row a workbook, or one branch each: the mirror compares other branches whole, within fullCheck',
    ),
    find(
      'workbooks.integration',
      'what is integration?',
      `full_name ${byName}, id ${byId}, no listed repository ${unknown}`,
      unknown === 0
        ? 'every row is joined with its repository'
        : 'rows of repositories that are not listed are left out',
    ),
    find(
      'workbooks.without_rows',
      'repositories without a listed workbook',
      `${without} of ${repositories.length}`,
      'the mirror takes what these give without a branch, as HEAD',
    ),
    find(
      'workbooks.ids',
      'is id integration and name together?',
      allOf(rows, (row) => row['id'] === `${String(row['integration'])}${String(row['name'])}`),
      'the mirror goes by integration, name and branch',
    ),
    find(
      'workbooks.version_ids',
      'are version ids 40 hexadecimal digits?',
      allOf(rows, (row) => /^[0-9a-f]{40}$/i.test(String(partOf(row, 'version')['id']))),
      'the mirror takes a version id as any text',
    ),
  ];
}

function readFields(find: Find, { first, pages }: WorkbooksSeen): Finding[] {
  const rows = pages.flatMap((page) => page.rows);
  const odd = pages.reduce((sum, page) => sum + page.odd, 0);
  const extra = [
    ...rows.flatMap((row) => Object.keys(row).filter((name) => !FIELDS.has(name))),
    ...rows.flatMap((row) => Object.keys(partOf(row, 'version')).filter((name) => !VERSION_FIELDS.has(name))),
  ];
  const missing = [
    ...rows.flatMap((row) => [...FIELDS].filter((name) => !(name in row))),
    ...rows.flatMap((row) => [...VERSION_FIELDS].filter((name) => !(name in partOf(row, 'version')))),
  ];
  const envelope = envelopeFields(first).filter((name) => !PAGE_FIELDS.has(name));
  const processing = rows.filter((row) => Number(partOf(row, 'status')['processing'] ?? 0) > 0).length;
  const failing = rows.filter((row) => Number(partOf(row, 'status')['failure'] ?? 0) > 0).length;
  return [
    find(
      'workbooks.action',
      'values of version.action',
      tally(rows.map((row) => partOf(row, 'version')['action'])),
      'the mirror does not use it',
    ),
    find(
      'workbooks.status',
      'values of version.status',
      tally(rows.map((row) => partOf(row, 'version')['status'])),
      'it counts as processing unless it reads like finished (success, failed, …), or is missing',
    ),
    find(
      'workbooks.counters',
      'counters above 0',
      `processing ${processing}, failure ${failing}`,
      'what is processing is pulled once more when it has finished',
    ),
    find(
      'workbooks.created_at',
      'which form has version.created_at?',
      timeForms(rows.map((row) => partOf(row, 'version')['created_at'])),
      'it becomes the time of the file',
    ),
    find(
      'workbooks.malformed',
      'rows that are no objects',
      String(odd),
      odd === 0 ? 'all rows count' : 'while a row is malformed the mirror believes no absence',
    ),
    find(
      'workbooks.missing_fields',
      'are fields missing?',
      fieldNames(missing) || 'none',
      'id, name, integration, version.id and version.branch are needed, and nothing else',
    ),
    find(
      'workbooks.extra_fields',
      'are there further fields?',
      fieldNames([...extra, ...envelope]) || 'none',
      'the mirror leaves them alone',
    ),
  ];
}

function envelopeFields({ body }: ProbeAnswer): string[] {
  const value = jsonOf({ body });
  return isObject(value) ? Object.keys(value) : [];
}
