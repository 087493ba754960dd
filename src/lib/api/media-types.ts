/** The media types of workbooks (IANA's registry); any other file is just bytes. */
const WORKBOOK_TYPES: ReadonlyMap<string, string> = new Map([
  ['xlsx', 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'],
  ['xltx', 'application/vnd.openxmlformats-officedocument.spreadsheetml.template'],
  ['xlsm', 'application/vnd.ms-excel.sheet.macroEnabled.12'],
  ['xltm', 'application/vnd.ms-excel.template.macroEnabled.12'],
  ['xlsb', 'application/vnd.ms-excel.sheet.binary.macroEnabled.12'],
  ['xls', 'application/vnd.ms-excel'],
  ['ods', 'application/vnd.oasis.opendocument.spreadsheet'],
]);

/** The type of a file by the end of its name, in small letters; '' for none. */
export function typeOf(path: string): string {
  return /\.([^./]*)$/.exec(path)?.[1]?.toLowerCase() ?? '';
}

/** The media type to send a file with, by its name. */
export function mediaTypeOf(path: string): string {
  return WORKBOOK_TYPES.get(typeOf(path)) ?? 'application/octet-stream';
}

/** Whether a file is a workbook, by its name; the service's users see these files only. */
export function isWorkbookName(path: string): boolean {
  return WORKBOOK_TYPES.has(typeOf(path));
}
