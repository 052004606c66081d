package stack

import "strings"

// maxType is the longest name of a type, in bytes.
const maxType = 160

// uncaughtBy is what stands before the type where an error was thrown and nobody
// caught it.
var uncaughtBy = [...]string{
	"Uncaught (in promise) ", "Uncaught ", "Unhandled rejection: ", "Unhandled Rejection: ", "Unhandled exception. ",
	"Unhandled exception: ", "PHP Fatal error:  Uncaught ", "Fatal error: Uncaught ", "Exception in thread ", "error: Uncaught ",
}

// uncaught is the type that a message says was thrown, empty where it may be but
// words that somebody logged.
func uncaught(message string) string {
	rest := withoutUncaught(message)
	if len(rest) == len(message) {
		return ""
	}
	return typeOf(rest, false)
}

func withoutUncaught(text string) string {
	for _, before := range uncaughtBy {
		if rest, ok := strings.CutPrefix(text, before); ok {
			if before == "Exception in thread " && strings.HasPrefix(rest, `"`) { // "main"
				if end := strings.Index(rest[1:], `" `); end >= 0 {
					rest = rest[1+end+2:]
				}
			}
			if before == "error: Uncaught " { // Deno
				rest = strings.TrimPrefix(rest, "(in promise) ")
			}
			return rest
		}
	}
	return text
}

// typeOf is the type that a line of a trace begins with, empty where it begins with
// something else. Where it is sure that a type stands there any name is one; else it
// must look like one, because many a logged line begins with a word and a colon.
func typeOf(line string, sure bool) string {
	line = line[:min(len(line), 4*maxType)]
	line = withoutUncaught(line)
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
		return "panic"
	}
	n := 0
	for n < len(line) && isNameByte(line[n]) {
		n++
	}
	for n > 0 && line[n-1] == ':' { // the colon behind the name belongs to no ::
		n--
	}
	if n == 0 || n > maxType {
		return ""
	}
	name, rest := line[:n], line[n:]
	switch {
	case rest == "", strings.HasPrefix(rest, ": "), rest == ":", strings.HasPrefix(rest, " ("):
	case strings.HasPrefix(rest, " ["): // Error [ERR_INVALID_ARG_TYPE]: ...
		code := strings.IndexByte(rest, ']')
		if code < 0 || !isName(rest[2:code]) {
			return ""
		}
		name = line[:n+code+1]
	default:
		return ""
	}
	if !sure && !looksLikeType(line[:n]) || isDigit(name[0]) {
		return ""
	}
	return strings.TrimLeft(name, "*&")
}

// isNameByte says whether a byte may stand in the name of a type, with its package.
func isNameByte(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '_' || c == '.' || c == '$' || c == '\\' || c == ':' || c == '/' || c == '*' || c >= 0x80
}

func isName(text string) bool {
	if text == "" || len(text) > maxType {
		return false
	}
	for i := range len(text) {
		if !isNameByte(text[i]) {
			return false
		}
	}
	return true
}

// looksLikeType says whether a name is that of a type by its look: it says so in its
// last part, or has a package before a part that begins with a capital.
func looksLikeType(name string) bool {
	last := lastName(name)
	if strings.Contains(last, "Error") || strings.Contains(last, "Exception") {
		return true
	}
	for _, end := range [...]string{"Fault", "Failure", "Interrupt", "Iteration", "errorString", "wrapError"} {
		if strings.HasSuffix(last, end) {
			return true
		}
	}
	return last != "" && len(last) < len(name) && last[0] >= 'A' && last[0] <= 'Z' && strings.IndexByte(name, '/') < 0
}

// lastName is the last part of a name.
func lastName(name string) string {
	if end := strings.IndexByte(name, ' '); end > 0 { // Error [CODE]
		return name
	}
	i := len(name)
	for i > 0 && strings.IndexByte(".\\:/$#", name[i-1]) < 0 {
		i--
	}
	return name[i:]
}

// common are types that many errors are of: those of languages and of libraries, which
// programs throw with words of their own, or which carry what another system said.
// What their words quote is not in a template, so words cost nothing there. A type
// that is not among them somebody made for one kind of error: its words may be of
// anything, such as a name.
var common = func() map[string]bool {
	set := map[string]bool{}
	for _, names := range [...]string{
		"Error Exception Throwable BaseException RuntimeError RuntimeException LogicException StandardError ErrorException SystemException ApplicationException",
		"panic errorString wrapError joinError fundamental withStack Failure SystemExit AggregateError AggregateException ExceptionGroup UnhandledPromiseRejection",
		"AssertionError AssertionFailedError AssertionException InvariantError",
		"TypeError ReferenceError RangeError SyntaxError EvalError URIError InternalError DOMException ChunkLoadError SecurityError",
		"ValueError KeyError IndexError LookupError AttributeError NameError UnboundLocalError ZeroDivisionError ArithmeticError OverflowError ImportError",
		"ModuleNotFoundError NotImplementedError RecursionError MemoryError StopIteration UnicodeDecodeError UnicodeEncodeError JSONDecodeError OSError IOError",
		"FileNotFoundError PermissionError ConnectionError ConnectionRefusedError ConnectionResetError TimeoutError BrokenPipeError EOFError",
		"NullPointerException IndexOutOfBoundsException ArrayIndexOutOfBoundsException StringIndexOutOfBoundsException ClassCastException NumberFormatException",
		"ArithmeticException UnsupportedOperationException ConcurrentModificationException NoSuchElementException IllegalArgumentException IllegalStateException",
		"IllegalAccessException NegativeArraySizeException StackOverflowError OutOfMemoryError NoClassDefFoundError ClassNotFoundException IOException",
		"FileNotFoundException InterruptedException ExecutionException CompletionException UninitializedPropertyAccessException ServletException",
		"NullReferenceException IndexOutOfRangeException KeyNotFoundException InvalidCastException InvalidOperationException ArgumentException",
		"ArgumentNullException ArgumentOutOfRangeException FormatException OverflowException DivideByZeroException NotSupportedException ObjectDisposedException",
		"NotImplementedException TimeoutException TaskCanceledException OperationCanceledException TargetInvocationException UnauthorizedAccessException",
		"NoMethodError ArgumentError FrozenError FloatDomainError SystemCallError LoadError FiberError ThreadError UncaughtThrowError",
		"InvalidArgumentException UnexpectedValueException DomainException OutOfBoundsException OutOfRangeException BadMethodCallException DivisionByZeroError ArgumentCountError",
		"AxiosError HTTPError HttpError HttpException HttpRequestException HttpErrorResponse FetchError ApiError APIError RequestError ResponseError ClientError",
		"ServerError NetworkError ServiceError ServiceException SocketException SocketTimeoutException ConnectException UnknownHostException",
		"GraphQLError ApolloError GrpcException StatusRuntimeException RpcException RpcError",
		"SQLException SqlException PDOException QueryException DatabaseError OperationalError ProgrammingError IntegrityError DataError InterfaceError",
		"StatementInvalid MongoError MongoServerError PrismaClientKnownRequestError QueryFailedError SequelizeDatabaseError DataIntegrityViolationException",
		"ValidationError ValidationException",
	} {
		for _, name := range strings.Fields(names) {
			set[name] = true
		}
	}
	return set
}()
