//! A treap over the slots of a ring: in order by value, a heap by priority, with counts and sums.

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// A slot and the values below it.
///
/// `count` and `sum` are those of the node's subtree, itself included, computed anew from the children
/// on every change, so sums do not drift.
#[derive(Debug, Clone, Copy)]
struct Node {
    value: f64,
    sum: f64,
    left: u32,
    right: u32,
    count: u32,
    priority: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    root: u32,
    /// State of the sequence of priorities.
    draw: u64,
}

impl Tree {
    pub(super) fn new(capacity: u32) -> Self {
        let empty = Node {
            value: 0.0,
            sum: 0.0,
            left: NONE,
            right: NONE,
            count: 0,
            priority: 0,
        };
        Self {
            nodes: vec![empty; capacity as usize],
            root: NONE,
            draw: 0x9e37_79b9_7f4a_7c15,
        }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.nodes.len() as u32
    }

    pub(super) fn value(&self, slot: u32) -> f64 {
        self.nodes[slot as usize].value
    }

    pub(super) fn sum(&self) -> f64 {
        self.node(self.root).map_or(0.0, |node| node.sum)
    }

    /// Puts `value` into the free slot `slot`.
    pub(super) fn insert(&mut self, slot: u32, value: f64) {
        // xorshift64*: the shape of the tree need not be unpredictable, only balanced.
        self.draw ^= self.draw >> 12;
        self.draw ^= self.draw << 25;
        self.draw ^= self.draw >> 27;
        let priority = (self.draw.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32;
        self.nodes[slot as usize] = Node {
            value,
            sum: value,
            left: NONE,
            right: NONE,
            count: 1,
            priority,
        };
        self.root = self.insert_below(self.root, slot);
    }

    /// Takes the value out of `slot`.
    pub(super) fn remove(&mut self, slot: u32) -> f64 {
        self.root = self.remove_below(self.root, slot);
        self.nodes[slot as usize].value
    }

    /// Number and sum of the values below `b`, or at most `b` when `or_equal`.
    pub(super) fn below(&self, b: f64, or_equal: bool) -> (u32, f64) {
        let (mut count, mut sum) = (0, 0.0);
        let mut at = self.root;
        while let Some(node) = self.node(at) {
            if node.value < b || or_equal && node.value == b {
                count += 1;
                sum += node.value;
                if let Some(left) = self.node(node.left) {
                    count += left.count;
                    sum += left.sum;
                }
                at = node.right;
            } else {
                at = node.left;
            }
        }
        (count, sum)
    }

    /// The slot of the value at `rank`, counted from 0; `NONE` beyond the last.
    pub(super) fn nth(&self, mut rank: u32) -> u32 {
        let mut at = self.root;
        while let Some(node) = self.node(at) {
            let left = self.node(node.left).map_or(0, |left| left.count);
            match rank.cmp(&left) {
                std::cmp::Ordering::Less => at = node.left,
                std::cmp::Ordering::Equal => return at,
                std::cmp::Ordering::Greater => {
                    rank -= left + 1;
                    at = node.right;
                }
            }
        }
        NONE
    }

    pub(super) fn visit(&self, visit: &mut impl FnMut(f64, usize)) {
        self.visit_below(self.root, visit);
    }

    fn visit_below(&self, at: u32, visit: &mut impl FnMut(f64, usize)) {
        if let Some(node) = self.node(at) {
            self.visit_below(node.left, visit);
            visit(node.value, at as usize);
            self.visit_below(node.right, visit);
        }
    }

    fn node(&self, slot: u32) -> Option<&Node> {
        self.nodes.get(slot as usize)
    }

    /// Whether `a` stands before `b`; equal values stand in the order of their slots.
    fn is_before(&self, a: u32, b: u32) -> bool {
        let (x, y) = (self.value(a), self.value(b));
        x < y || x == y && a < b
    }

    /// Counts and sums of `at` from its children.
    fn refresh(&mut self, at: u32) {
        let node = self.nodes[at as usize];
        let (mut count, mut sum) = (1, node.value);
        for child in [node.left, node.right] {
            if let Some(child) = self.node(child) {
                count += child.count;
                sum += child.sum;
            }
        }
        let node = &mut self.nodes[at as usize];
        node.count = count;
        node.sum = sum;
    }

    fn insert_below(&mut self, at: u32, new: u32) -> u32 {
        if at == NONE {
            return new;
        }
        if self.nodes[new as usize].priority > self.nodes[at as usize].priority {
            let (left, right) = self.split(at, new);
            self.nodes[new as usize].left = left;
            self.nodes[new as usize].right = right;
            self.refresh(new);
            return new;
        }
        if self.is_before(new, at) {
            self.nodes[at as usize].left = self.insert_below(self.nodes[at as usize].left, new);
        } else {
            self.nodes[at as usize].right = self.insert_below(self.nodes[at as usize].right, new);
        }
        self.refresh(at);
        at
    }

    /// Splits the tree at `at` into what stands before `pivot` and what stands behind it.
    fn split(&mut self, at: u32, pivot: u32) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let parts = if self.is_before(at, pivot) {
            let (left, right) = self.split(self.nodes[at as usize].right, pivot);
            self.nodes[at as usize].right = left;
            (at, right)
        } else {
            let (left, right) = self.split(self.nodes[at as usize].left, pivot);
            self.nodes[at as usize].left = right;
            (left, at)
        };
        self.refresh(at);
        parts
    }

    fn remove_below(&mut self, at: u32, slot: u32) -> u32 {
        debug_assert_ne!(at, NONE, "slot {slot} is not in the tree");
        if at == slot {
            let node = self.nodes[at as usize];
            return self.join(node.left, node.right);
        }
        if self.is_before(slot, at) {
            self.nodes[at as usize].left = self.remove_below(self.nodes[at as usize].left, slot);
        } else {
            self.nodes[at as usize].right = self.remove_below(self.nodes[at as usize].right, slot);
        }
        self.refresh(at);
        at
    }

    /// One tree from two, of which `left` stands before `right`.
    fn join(&mut self, left: u32, right: u32) -> u32 {
        if left == NONE {
            return right;
        }
        if right == NONE {
            return left;
        }
        let top = if self.nodes[left as usize].priority > self.nodes[right as usize].priority {
            self.nodes[left as usize].right = self.join(self.nodes[left as usize].right, right);
            left
        } else {
            self.nodes[right as usize].left = self.join(left, self.nodes[right as usize].left);
            right
        };
        self.refresh(top);
        top
    }
}
