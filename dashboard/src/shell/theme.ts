import { useState } from 'react';

export type Theme = 'system' | 'light' | 'dark';

const key = 'parley-theme';

export function applyStoredTheme(): void {
  apply(stored());
}

export function useTheme(): [Theme, (next: Theme) => void] {
  const [theme, setTheme] = useState(stored);
  return [
    theme,
    (next) => {
      localStorage.setItem(key, next);
      apply(next);
      setTheme(next);
    },
  ];
}

function stored(): Theme {
  const value = localStorage.getItem(key);
  return value === 'light' || value === 'dark' ? value : 'system';
}

function apply(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
