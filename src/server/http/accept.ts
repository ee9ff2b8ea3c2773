/** The content type with the highest weight in the header `Accept`; of equals, the first of `types`. */
export function preferred(accept: string, types: readonly [string, ...string[]]): string {
  const ranges = accept.split(',', 50).map((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.find((one) => one.startsWith('q='))?.slice(2);
    return { type, weight: weight === undefined ? 1 : Number(weight) || 0 };
  });
  const weightOf = (type: string): number => {
    const forms = [type, `${type.split('/', 1)[0]}/*`, '*/*'];
    const named = forms.map((form) => ranges.find((range) => range.type === form)).find(Boolean);
    return named?.weight ?? 0;
  };
  const [best] = types.map((type) => ({ type, weight: weightOf(type) })).toSorted((a, b) => b.weight - a.weight);
  return best?.type ?? types[0];
}
