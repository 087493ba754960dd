/** The value of a setting in a settings object, by its dotted name; undefined where nothing is set. */
export function settingValue(settings: object, name: string): unknown {
  let value: unknown = settings;
  for (const part of name.split('.')) {
    value = isRecord(value) ? value[part] : undefined;
  }
  return value;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
