// A button that opens a list of options with checkboxes.

import { useEffect, useId, useRef, useState } from 'preact/hooks';

import { Name } from './bits.tsx';

interface Props {
  readonly name: string;
  readonly options: readonly { readonly value: string; readonly label: string; readonly count: number }[];
  readonly chosen: readonly string[];
  readonly onChange: (chosen: string[]) => void;
}

export function MultiSelect({ name, options, chosen, onChange }: Props) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => {
    if (!open) return;
    root.current?.querySelector('input')?.focus();
    const closeOutside = (e: Event) => {
      if (!root.current?.contains(e.target as Node)) setOpen(false);
    };
    document.addEventListener('pointerdown', closeOutside);
    return () => document.removeEventListener('pointerdown', closeOutside);
  }, [open]);
  // Chosen values stay in the list even if no alert has them now.
  const all = [
    ...options,
    ...chosen.filter((c) => !options.some((o) => o.value === c)).map((value) => ({ value, label: value, count: 0 })),
  ];
  return (
    <div
      class="multi-select"
      ref={root}
      onKeyDown={(e) => {
        if (e.key === 'Escape' && open) {
          e.preventDefault();
          setOpen(false);
          button.current?.focus();
        }
      }}
    >
      <button
        ref={button}
        type="button"
        class="toggle"
        data-chosen={chosen.length > 0}
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
      >
        {name}
        {chosen.length === 1 && (
          <span class="one">
            <Name text={all.find((o) => o.value === chosen[0])?.label ?? ''} />
          </span>
        )}
        {chosen.length > 1 && <span class="number">{chosen.length}</span>}
        <span class="caret" aria-hidden="true">
          ▾
        </span>
      </button>
      <div id={id} class="multi-select-panel" role="group" aria-label={name} hidden={!open}>
        {all.length === 0 && <p>None yet</p>}
        {all.map((o) => (
          <label key={o.value}>
            <input
              type="checkbox"
              checked={chosen.includes(o.value)}
              onChange={(e) =>
                onChange(e.currentTarget.checked ? [...chosen, o.value] : chosen.filter((c) => c !== o.value))
              }
            />
            <Name text={o.label} empty="(none)" />
            <span class="number">{o.count}</span>
          </label>
        ))}
        {chosen.length > 0 && (
          <button type="button" class="link" onClick={() => onChange([])}>
            All
          </button>
        )}
      </div>
    </div>
  );
}
