import { useCallback, useLayoutEffect, useRef } from 'react';

/**
 * The action, which does nothing once its component has been left. For what changes the address: a request may end when the
 * person has long gone to another page, and they stay there.
 */
export function useWhileShown<Values extends unknown[]>(action: (...values: Values) => void): (...values: Values) => void {
  const isShown = useRef(false);
  useLayoutEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
    };
  }, []);
  return useCallback(
    (...values: Values) => {
      if (isShown.current) action(...values);
    },
    [action],
  );
}
