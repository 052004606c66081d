package stack

import "strings"

// maxType is the longest name of a type, in bytes.
const maxType = 160

// uncaughtBy are the texts before the type of an uncaught error.
var uncaughtBy = [...]string{
	"Uncaught (in promise) ", "Uncaught ", "Unhandled rejection: ", "Unhandled Rejection: ", "Unhandled exception. ",
	"Unhandled exception: ", "PHP Fatal error:  Uncaught ", "Fatal error: Uncaught ", "Exception in thread ", "error: Uncaught ",
}

// uncaught returns the type of the exception in a message, empty where it may only be
// logged text.
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

// isNameByte reports whether a byte may stand in the name of a type, with its package.
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

// looksLikeType reports whether a name looks like a type: by its last part, or by a
// package before a part that begins with a capital.
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

// common reports whether many errors are of a type.
func common(kind string) bool {
	name := lastName(kind)
	return commonTypes[name] || general(name)
}

// general reports whether a name is made of nothing but words of systems and libraries,
// as ApiException, SQLAlchemyError and WebClientResponseException are: those carry
// what any of an app's requests was answered.
func general(name string) bool {
	rest, is := strings.CutSuffix(name, "Exception")
	if !is {
		if rest, is = strings.CutSuffix(name, "Error"); !is {
			return false
		}
	}
	for rest != "" {
		var lower [16]byte
		n := wordEnd(rest)
		if n > len(lower) {
			return false
		}
		for i := range n {
			lower[i] = rest[i]
			if c := rest[i]; c >= 'A' && c <= 'Z' {
				lower[i] |= 0x20
			}
		}
		if !generalWords[string(lower[:n])] {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// wordEnd is where the first word of a name ends: Web in WebClient, HTTP in HTTPStatus.
func wordEnd(name string) int {
	capital := func(i int) bool { return i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
	n := 1
	for n < len(name) && capital(n-1) && capital(n) && (n+1 == len(name) || capital(n+1)) {
		n++
	}
	for n < len(name) && !capital(n) {
		n++
	}
	return n
}

// generalWords are what the names of general types are made of.
var generalWords = setOf(
	"api app application http https rest rpc grpc trpc graphql soap web net network remote client server service backend gateway proxy",
	"request response status code result call op operation invocation connect connection transport protocol socket stream io url timeout read write",
	"internal external base custom generic general common default unknown known unexpected unhandled uncaught fatal critical error exception",
	"runtime system process processing execution task job worker business domain logic bad invalid illegal argument state value type validation",
	"data database db dao sql psql pg postgres postgresql mysql sqlite mssql oracle jdbc odbc mongo mongodb redis kafka amqp rabbit elastic elasticsearch dynamo",
	"query batch update statement transaction persistence repository storage store orm jpa hibernate sequelize prisma typeorm knex alchemy supabase postgrest",
	"firebase aws s3 azure google cloud axios fetch ajax guzzle apollo feign retrofit dio resource access nested wrapped programming integrity operational interface",
)

// commonTypes are types that many errors are of: those of languages and of libraries,
// which programs throw with words of their own, or which carry what another system said.
// Their words are safe to use, because a template leaves out what they quote. Another
// type was made for one kind of error: its words may be anything, such as a name.
var commonTypes = setOf(
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
)

// setOf is the words of some lines.
func setOf(lines ...string) map[string]bool {
	set := map[string]bool{}
	for _, line := range lines {
		for _, word := range strings.Fields(line) {
			set[word] = true
		}
	}
	return set
}
